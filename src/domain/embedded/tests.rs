use proptest::prelude::*;

use super::*;

const URL: &str = "https://cdn.example.com/u/1.png";

#[test]
fn a_url_in_a_text_is_missed() {
    for text in [
        "https://cdn.example.com/u/1.png",
        "see https://cdn.example.com/u/1.png.",
        "![x](https://cdn.example.com/u/1.png)",
        "![x](https://cdn.example.com/u/1.png \"title\")",
        "[1]: <https://cdn.example.com/u/1.png>",
        "<img src='https://cdn.example.com/u/1.png'>",
        "<img src=https://cdn.example.com/u/1.png>",
        "<img srcset=\"https://cdn.example.com/u/1.png 1x, https://cdn.example.com/u/2.png 2x\">",
        "background: url(https://cdn.example.com/u/1.png);",
        "{\"src\":\"https:\\/\\/cdn.example.com\\/u\\/1.png\"}",
        "{\\\"src\\\": \\\"https://cdn.example.com/u/1.png\\\"}",
        "{\"src\":\"https:\\u002f\\u002fcdn.example.com/u/1.png\"}",
        r#"{"doc": "{\"src\":\"https:\\\/\\\/cdn.example.com\\\/u\\\/1.png\"}"}"#,
        r#""{\"src\": \"https:\\/\\/cdn.example.com\\/\\u0075/1.png\"}""#,
        "*https://cdn.example.com/u/1.png*, and more",
        "a|https://cdn.example.com/u/1.png|b",
        "[img]https://cdn.example.com/u/1.png[/img]",
        "https://cdn.example.com/u/1.png&nbsp;and",
        "https://cdn.example.com/u/1.png\u{a0}and",
        "“https://cdn.example.com/u/1.png”",
        "«https://cdn.example.com/u/1.png» &rdquo;",
        "&ldquo;https://cdn.example.com/u/1.png&rdquo;",
        "https://cdn.example.com/u/1.png。次",
        "（https://cdn.example.com/u/1.png），",
        "https://cdn.example.com/u/1.png—and…",
        "https://cdn.example.com/u/1.png\u{200b}",
        "![](https://cdn.example.com/u/1.png){width=50}",
        "https://cdn.example.com/u/1.png{width=50}",
        "$https://cdn.example.com/u/1.png$ ^https://cdn.example.com/u/1.png^",
        "<img src=\"/_next/image?url=https%3A%2F%2Fcdn.example.com%2Fu%2F1.png&w=64\">",
        "<img src=\"/_next/image?url=https%3A%2F%2Fcdn.example.com%2Fphoto%20(1).png&w=64\"> https://cdn.example.com/u/1.png",
        "https://wsrv.nl/?url=https://cdn.example.com/u/1.png&w=300",
        "<img src=\"/_next/image?url=https://cdn.example.com/u/1.png&amp;w=64\">",
        "src=&amp;quot;https://cdn.example.com/u/1.png&amp;quot;",
        "https://cdn.example.com/u/1.png&nbsp and",
        "图片https://cdn.example.com/u/1.png见下",
        "https://cdn.example.com/u/1.png에서 보기",
        "?url=https%3A//cdn.example.com/u/1.png",
        "?url=https:%2F%2Fcdn.example.com/u/1.png",
        "?url=https%3a%2f%2Fcdn.example.com%2fu/1.png",
        "https://img.example.org/w64/https%3A%2F%2Fcdn.example.com%2Fu%2F1.png",
        "https://img.example.org/https%3A%2F%2Fcdn.example.com%2Fu%2F1.png/w_300",
        "/p/https%3A%2F%2Fcdn.example.com%2Fu%2F1.png/-/preview/",
        "https%3A%2F%2Fcdn.example.com%2Fu%2F1.png:large",
        "/sign-in?next=%2Fshow%3Furl%3Dhttps%253A%252F%252Fcdn.example.com%252Fu%252F1.png",
        "data=%7B%22src%22%3A%22https%3A%5C%2F%5C%2Fcdn.example.com%5C%2Fu%5C%2F1.png%22%7D",
    ] {
        assert!(urls(text).iter().any(|url| url == URL), "{text}: {:?}", urls(text));
    }
    let found = |text: &str, url: &str| assert!(urls(text).iter().any(|found| found == url), "{text}");
    found("<img src=\"//cdn.example.com/u/1.png\">", "//cdn.example.com/u/1.png");
    found("<img src=\"https://c.example.com/a.png?x=1&amp;v=2\">", "https://c.example.com/a.png?x=1&v=2");
    found("<img src=\"https://c.example.com/a b (1).png\">", "https://c.example.com/a b (1).png");
    found("![](https://c.example.com/caf\\u00e9\\ud83d\\ude00.png)", "https://c.example.com/caf\u{e9}😀.png");
    found("<img src='https://c.example.com/it&#39;s.png'>", "https://c.example.com/it's.png");
    found("HTTPS://CDN.example.com/x", "HTTPS://CDN.example.com/x");
    found("<img src=\"https://c.example.com/a&quot;b.png\">", "https://c.example.com/a\"b.png");
    found("<img src=\"https://c.example.com/a&lt;b&gt;.png\">", "https://c.example.com/a<b>.png");
    found("?url=https%3A%2F%2Fc.example.com%2Fphoto%20(1).png&w=64", "https://c.example.com/photo (1).png");
    found("<img src='https://c.example.com/a\"b.png'>", "https://c.example.com/a\"b.png");
    found("<img src=\"https://c.example.com/a`b.png\">", "https://c.example.com/a`b.png");
    found(
        "<img src='https://c.example.com/a b c d e f g h i j k.png' alt=''>",
        "https://c.example.com/a b c d e f g h i j k.png",
    );
    let mut named = Named::default();
    (0..1000).for_each(|n| named.note(&format!("{n} https://a/{}", "a,".repeat(1780))));
    named.note("see https://cdn.example.com/u/1.png");
    let texts = named.texts();
    assert!(texts.iter().any(|text| text == URL) && texts.iter().map(String::len).sum::<usize>() < 16 << 20);
    assert!(urls("nothing // here, http:// or there").is_empty());
}

#[test]
fn a_long_line_makes_more_than_it_is() {
    let line = format!("https://cdn.example.com/a.png {}", "word ".repeat(20_000));
    let found = urls(&line);
    assert!(found.iter().any(|url| url == "https://cdn.example.com/a.png"));
    assert!(found.iter().map(String::len).sum::<usize>() < 20_000, "{}", found.len());
    let chinese = "。见，文字；".repeat(800);
    let prose: String = (0..40).map(|n| format!("见https://cdn.example.com/p/{n}{chinese}")).collect();
    for photo in ["https://cdn.example.com/photo$1.png", "https://cdn.example.com/cafe\u{301}.png"] {
        assert!(urls(&format!("{prose}\n![]({photo})")).iter().any(|url| url == photo), "{photo}");
    }
    let prose = "See https://cdn.example.com/some/page.html for more words, and then some; ".repeat(6000);
    let photo = "https://cdn.example.com/photo (1).png";
    assert!(urls(&format!("{prose}<img src=\"{photo}\">")).iter().any(|url| url == photo));
    for hostile in ["//a/", "https://a/", "//a/,", "https://a/;b,"] {
        let found = urls(&format!("{} https://cdn.example.com/a.png \"", hostile.repeat(20_000)));
        assert!(found.iter().any(|url| url == "https://cdn.example.com/a.png"), "{hostile}");
        assert!(found.iter().map(String::len).sum::<usize>() < 8 << 20, "{hostile}");
    }
}

proptest! {
    #[test]
    fn some_text_breaks_the_search(text in any::<String>()) {
        urls(&text);
        urls(&format!("https://{text}\\{text}\\u{text}"));
    }

    #[test]
    fn a_url_between_other_words_is_missed(
        before in "[a-zA-Z \n(\\[\"']{0,8}",
        path in "[a-zA-Z0-9é./%-]{1,20}",
        after in "([ \n)\\]\"',][a-z .]{0,8}|[.,!?]{0,2}( [a-z]{0,5})?)",
    ) {
        let url = format!("https://cdn.example.com/{path}");
        let text = format!("{before}{url}{after}");
        let found = urls(&text);
        prop_assert!(found.contains(&url), "{text:?}: {found:?}");
    }
}
